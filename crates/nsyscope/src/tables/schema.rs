//! Which tables there are, and what their columns hold. `docs/tables.md` says the same.

use super::column::ColumnInfo;
use super::column::ColumnType::{self, Bool, F64, I64, Text, U32, U64};

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableKind {
    /// Every GPU activity.
    Kernels,
    /// Every step of every rank.
    Steps,
    /// Every matched collective, one row a rank.
    Collectives,
    /// The model's operations by phase and batch.
    Ops,
}

impl TableKind {
    /// Every table, in the order in which they are written.
    pub const ALL: [Self; 4] = [Self::Kernels, Self::Steps, Self::Collectives, Self::Ops];

    /// The stable text form, which names files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kernels => "kernels",
            Self::Steps => "steps",
            Self::Collectives => "collectives",
            Self::Ops => "ops",
        }
    }

    /// Its columns, in order.
    pub fn columns(self) -> &'static [ColumnInfo] {
        match self {
            Self::Kernels => KERNELS,
            Self::Steps => STEPS,
            Self::Collectives => COLLECTIVES,
            Self::Ops => OPS,
        }
    }
}

/// A column that is never null.
const fn always(
    name: &'static str,
    kind: ColumnType,
    unit: &'static str,
    meaning: &'static str,
) -> ColumnInfo {
    ColumnInfo { name, kind, unit, meaning, null: "" }
}

/// A column that can be null.
const fn maybe(
    name: &'static str,
    kind: ColumnType,
    unit: &'static str,
    meaning: &'static str,
    null: &'static str,
) -> ColumnInfo {
    ColumnInfo { name, kind, unit, meaning, null }
}

const NOT_EXPORTED: &str = "the capture does not say";
const OUTSIDE: &str = "in no (selected) step";
const NO_OP: &str = "without a model, outside of steps, and where no operation explains it";
const NO_PRODUCT: &str = "no product of matrices, or no operation";
const UNKNOWN: &str = "unknown";
const NO_LAUNCH: &str = "the call was not captured";
const ALONE: &str = "no partner is in the captures";
const NO_FLOOR: &str = "no GPU, or tokens or context unknown";

pub(super) const KERNELS: &[ColumnInfo] = &[
    always("rank", U32, "", "The rank's number in the run"),
    maybe("device", I64, "", "The device ordinal in its process", NOT_EXPORTED),
    maybe("context", I64, "", "The CUDA context's id in its process", NOT_EXPORTED),
    maybe("stream", I64, "", "The stream's id in its context", NOT_EXPORTED),
    always("kind", Text, "", "`kernel`, `graph` (traced as a whole), `memcpy` or `memset`"),
    always("start_ns", I64, "ns", "When it began, on its capture's clock"),
    always("end_ns", I64, "ns", "When it ended"),
    always("name", Text, "", "The demangled name; copies, fills and graphs go by their category"),
    always("category", Text, "", "Its category"),
    maybe("step", U32, "", "The step's number on the rank: `index` in `steps`", OUTSIDE),
    maybe(
        "phase",
        Text,
        "",
        "The step's phase: `prefill`, `decode`, `mixed` or `unknown`",
        OUTSIDE,
    ),
    maybe("batch", U32, "requests", "The step's requests", "outside of steps, or unknown"),
    maybe("layer", U32, "", "The layer", "before, between and after layers, and outside of steps"),
    maybe("op", Text, "", "The model's operation", NO_OP),
    maybe("m", F64, "", "Rows of a product", "no product, or tokens unknown"),
    maybe("n", U64, "", "Columns of a product", NO_PRODUCT),
    maybe("k", U64, "", "Inner dimension of a product", NO_PRODUCT),
    maybe("groups", F64, "", "Products at once: heads, or expected distinct experts", NO_PRODUCT),
    maybe("grid_x", U32, "blocks", "Blocks in x", "no kernel, or the capture does not say"),
    maybe("grid_y", U32, "blocks", "Blocks in y", "no kernel, or the capture does not say"),
    maybe("grid_z", U32, "blocks", "Blocks in z", "no kernel, or the capture does not say"),
    maybe("bytes", U64, "bytes", "What a copy moved or a fill wrote", "neither copy nor fill"),
    maybe("correlation", U32, "", "CUPTI's correlation id, unique in a process", NOT_EXPORTED),
    maybe(
        "graph_node",
        I64,
        "",
        "nsys' id of the CUDA graph node that the kernel executes",
        "launched on its own",
    ),
    maybe("launch_start_ns", I64, "ns", "When the call began that launched it", NO_LAUNCH),
    maybe("launch_end_ns", I64, "ns", "When that call ended", NO_LAUNCH),
    maybe("launch_call", Text, "", "The call's function", NO_LAUNCH),
    maybe(
        "collective",
        U32,
        "",
        "Its collective: `call` in `collectives`",
        "no matched collective",
    ),
    maybe(
        "wait_ns",
        I64,
        "ns",
        "Of a collective, the time until its last rank had arrived",
        "no collective of several ranks",
    ),
];

pub(super) const STEPS: &[ColumnInfo] = &[
    always("rank", U32, "", "The rank's number in the run"),
    always("index", U32, "", "The step's number on the rank, from 0"),
    always("phase", Text, "", "`prefill`, `decode`, `mixed` or `unknown`"),
    maybe("tokens", U32, "tokens", "Tokens that requests asked for", UNKNOWN),
    maybe(
        "padded_tokens",
        U32,
        "tokens",
        "Rows that ran, padding included",
        "no other number than `tokens` is to be seen",
    ),
    maybe("tokens_witness", Text, "", "What `tokens` rests on", "`tokens` is null"),
    maybe("batch", U32, "requests", "Requests", UNKNOWN),
    always("method", Text, "", "How it was found: `nvtx`, `cuda_graph`, `pattern` or `explicit`"),
    always("start_ns", I64, "ns", "The start of its first activity, on its capture's clock"),
    always("end_ns", I64, "ns", "The end of its last activity"),
    always("wall_ns", I64, "ns", "`end_ns` - `start_ns`"),
    always("busy_ns", I64, "ns", "The part of it in which anything of the step ran"),
    always("layers", U32, "", "Layers; 0 where none are to be seen"),
    always("kernels", U32, "", "Kernels"),
    always("graph_launches", U32, "", "CUDA graph launches"),
];

pub(super) const COLLECTIVES: &[ColumnInfo] = &[
    always("call", U32, "", "The collective's number, the same on all its ranks"),
    always("rank", U32, "", "The rank of this row"),
    always("ranks", U32, "", "How many ranks take part; 1 where no partner is in the captures"),
    always("kind", Text, "", "`all_reduce`, `all_gather`, ..., as in the report"),
    always("category", Text, "", "The kernels' category"),
    always("kernel", Text, "", "The kernels' base name"),
    maybe("op", Text, "", "The model's operation", NO_OP),
    always(
        "phase",
        Text,
        "",
        "The phase of the step that the report counts it to; `outside` of all",
    ),
    maybe("batch", U32, "requests", "That step's requests", "outside of steps, or unknown"),
    maybe("step", U32, "", "The step on this rank: `index` in `steps`", OUTSIDE),
    maybe(
        "layer",
        U32,
        "",
        "The layer on this rank",
        "before, between and after layers, and outside of steps",
    ),
    always("start_ns", I64, "ns", "When this rank's kernel began, on its capture's clock"),
    always("end_ns", I64, "ns", "When it ended"),
    always(
        "arrival_ns",
        I64,
        "ns",
        "When it began, on the clock that all captures of the run share",
    ),
    always("duration_ns", I64, "ns", "How long it ran"),
    maybe("wait_ns", I64, "ns", "Until the last rank had arrived", ALONE),
    maybe("transfer_ns", I64, "ns", "After that; `wait_ns` + `transfer_ns` = `duration_ns`", ALONE),
    maybe("last_rank", U32, "", "The rank that arrived last", ALONE),
    maybe("message_bytes", U64, "bytes", "The message, as nccl-tests counts it", UNKNOWN),
    maybe(
        "message_provenance",
        Text,
        "",
        "What `message_bytes` rests on",
        "`message_bytes` is null",
    ),
];

pub(super) const OPS: &[ColumnInfo] = &[
    always("phase", Text, "", "`prefill`, `decode`, `mixed` or `unknown`"),
    maybe("batch", U32, "requests", "Requests of the steps", UNKNOWN),
    always("op", Text, "", "The operation; `unmapped` for what no operation explains"),
    always("category", Text, "", "Its category; `unclassified` for `unmapped`"),
    always("kernels", Text, "", "The kernels that execute it, longest first, one a line"),
    always("calls", U64, "", "How often it ran, over all ranks"),
    always("time_ns", I64, "ns", "The sum of its kernels' durations"),
    always("wall_ns", I64, "ns", "Its part of the steps' wall time"),
    always("per_step_ns", F64, "ns", "`wall_ns` over the steps of all ranks"),
    maybe("m", F64, "", "Rows of a product, in one call", "no product, or tokens unknown"),
    maybe("n", U64, "", "Columns of a product", NO_PRODUCT),
    maybe("k", U64, "", "Inner dimension of a product", NO_PRODUCT),
    maybe("groups", F64, "", "Products at once: heads, or expected distinct experts", NO_PRODUCT),
    maybe("weights", Text, "", "How the model stores its weights", "it has none"),
    maybe("flops", F64, "FLOP", "Floating-point operations, of all calls", UNKNOWN),
    maybe("bytes", F64, "bytes", "What it must move at least, in all calls", UNKNOWN),
    maybe("flops_per_s", F64, "FLOP/s", "`flops` over `time_ns`", UNKNOWN),
    maybe("bytes_per_s", F64, "bytes/s", "`bytes` over `time_ns`", UNKNOWN),
    maybe("intensity", F64, "FLOP/byte", "`flops` over `bytes`", UNKNOWN),
    maybe("floor_ns", I64, "ns", "The least time, of all calls", NO_FLOOR),
    maybe("bound", Text, "", "`compute`, `memory`, `communication` or `latency`", NO_FLOOR),
    maybe("efficiency", F64, "", "Floor over measured", NO_FLOOR),
    maybe("headroom_ns", I64, "ns", "Measured minus floor", NO_FLOOR),
    always(
        "impossible",
        Bool,
        "",
        "Whether it is faster than anything can be: the mapping is wrong",
    ),
];
