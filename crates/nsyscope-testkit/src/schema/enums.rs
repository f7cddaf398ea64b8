//! The `ENUM_*` tables that name the numbers in other tables.

use super::Schema;

/// One enumeration: table name, rows of (id, name, label), versions.
pub(crate) struct Enum {
    pub(crate) table: &'static str,
    pub(crate) rows: &'static [(i64, &'static str, &'static str)],
    pub(crate) since: Schema,
    pub(crate) until: Schema,
}

const LAUNCH_TYPES: &[(i64, &str, &str)] = &[
    (0, "CUDA_KERNEL_LAUNCH_TYPE_UNKNOWN", "Unknown"),
    (1, "CUDA_KERNEL_LAUNCH_TYPE_REGULAR", "Regular"),
    (2, "CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE", "Coop Single Device"),
    (3, "CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_MULTI_DEVICE", "Coop Multi Device"),
];

/// The enumerations that CUDA and NVTX tables refer to. Captures hold more;
/// those concern tables that this crate does not write.
pub(crate) const ENUMS: &[Enum] = &[
    Enum {
        table: "ENUM_NSYS_EVENT_TYPE",
        rows: &[
            (33, "NvtxCategory", "NvtxCategory"),
            (34, "NvtxMark", "NvtxMark"),
            (39, "NvtxThread", "NvtxThread"),
            (59, "NvtxPushPopRange", "NvtxPushPopRange"),
            (60, "NvtxStartEndRange", "NvtxStartEndRange"),
            (70, "NvtxtPushPopRange", "NvtxtPushPopRange"),
            (71, "NvtxtStartEndRange", "NvtxtStartEndRange"),
            (75, "NvtxDomainCreate", "NvtxDomainCreate"),
            (76, "NvtxDomainDestroy", "NvtxDomainDestroy"),
        ],
        since: Schema::V2022_4,
        until: Schema::V2026_2,
    },
    Enum {
        table: "ENUM_NSYS_EVENT_CLASS",
        rows: &[
            (0, "TRACE_PROCESS_EVENT_CUDA_RUNTIME", "CUDA runtime"),
            (1, "TRACE_PROCESS_EVENT_CUDA_DRIVER", "CUDA driver"),
            (26, "TRACE_PROCESS_EVENT_CUDA_API", "CUDA API"),
            (67, "TRACE_PROCESS_EVENT_CUDABACKTRACE", "CUDA backtrace"),
            (77, "TRACE_PROCESS_EVENT_CUDA_GRAPH_NODE_CREATION", "CUDA graph node creation"),
            (94, "TRACE_PROCESS_EVENT_CUDA_GRAPHEXEC_CREATION", "CUDA graph exec creation"),
            (95, "TRACE_PROCESS_EVENT_CUDA_GRAPH_CREATION", "CUDA graph creation"),
            (96, "TRACE_PROCESS_EVENT_CUDA_GRAPH_CLONE", "CUDA graph clone"),
        ],
        since: Schema::V2022_4,
        until: Schema::V2026_2,
    },
    Enum {
        table: "ENUM_CUDA_MEMCPY_OPER",
        rows: &[
            (0, "CUDA_MEMCPY_KIND_UNKNOWN", "Unknown"),
            (1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"),
            (2, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"),
            (3, "CUDA_MEMCPY_KIND_HTOA", "Host-to-Array"),
            (4, "CUDA_MEMCPY_KIND_ATOH", "Array-to-Host"),
            (5, "CUDA_MEMCPY_KIND_ATOA", "Array-to-Array"),
            (6, "CUDA_MEMCPY_KIND_ATOD", "Array-to-Device"),
            (7, "CUDA_MEMCPY_KIND_DTOA", "Device-to-Array"),
            (8, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"),
            (9, "CUDA_MEMCPY_KIND_HTOH", "Host-to-Host"),
            (10, "CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer"),
            (11, "CUDA_MEMCPY_KIND_UVM_HTOD", "Unified Host-to-Device"),
            (12, "CUDA_MEMCPY_KIND_UVM_DTOH", "Unified Device-to-Host"),
            (13, "CUDA_MEMCPY_KIND_UVM_DTOD", "Unified Device-to-Device"),
        ],
        since: Schema::V2022_4,
        until: Schema::V2026_2,
    },
    Enum {
        table: "ENUM_CUDA_MEM_KIND",
        rows: &[
            (0, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"),
            (1, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"),
            (2, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"),
            (3, "CUDA_MEMOPR_MEMORY_KIND_ARRAY", "Array"),
            (4, "CUDA_MEMOPR_MEMORY_KIND_MANAGED", "Managed"),
            (5, "CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC", "Device Static"),
            (6, "CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC", "Managed Static"),
            (7, "CUDA_MEMOPR_MEMORY_KIND_UNKNOWN", "Unknown"),
        ],
        since: Schema::V2022_4,
        until: Schema::V2026_2,
    },
    // The transposed letters are nsys' own; exports of 2022.4 and 2023.1 have them.
    Enum {
        table: "ENUM_CUDA_KRENEL_LAUNCH_TYPE",
        rows: LAUNCH_TYPES,
        since: Schema::V2022_4,
        until: Schema::V2022_4,
    },
    Enum {
        table: "ENUM_CUDA_KERNEL_LAUNCH_TYPE",
        rows: LAUNCH_TYPES,
        since: Schema::V2023_4,
        until: Schema::V2026_2,
    },
    Enum {
        table: "ENUM_CUDA_FUNC_CACHE_CONFIG",
        rows: &[
            (0, "CU_FUNC_CACHE_PREFER_NONE", "None"),
            (1, "CU_FUNC_CACHE_PREFER_SHARED", "Shared"),
            (2, "CU_FUNC_CACHE_PREFER_L1", "L1"),
            (3, "CU_FUNC_CACHE_PREFER_EQUAL", "Equal"),
        ],
        since: Schema::V2022_4,
        until: Schema::V2026_2,
    },
    Enum {
        table: "ENUM_CUDA_SHARED_MEM_LIMIT_CONFIG",
        rows: &[
            (0, "CUDA_SHARED_MEM_LIMIT_DEFAULT", "Default"),
            (1, "CUDA_SHARED_MEM_LIMIT_OPTIN", "Opt in"),
        ],
        since: Schema::V2022_4,
        until: Schema::V2026_2,
    },
    Enum {
        table: "ENUM_CUPTI_STREAM_TYPE",
        rows: &[
            (0, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_UNKNOWN", "Unknown stream type"),
            (1, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT", "Default stream"),
            (2, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING", "Non-blocking stream"),
            (3, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NULL", "Null stream"),
        ],
        since: Schema::V2022_4,
        until: Schema::V2026_2,
    },
    Enum {
        table: "ENUM_CUPTI_SYNC_TYPE",
        rows: &[
            (0, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN", "Unknown"),
            (1, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE", "Event sync"),
            (2, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT", "Stream wait sync"),
            (3, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", "Stream sync"),
            (4, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE", "Context sync"),
        ],
        since: Schema::V2022_4,
        until: Schema::V2026_2,
    },
    Enum {
        table: "ENUM_DIAGNOSTIC_SEVERITY_LEVEL",
        rows: &[
            (0, "UnknownLevel", "Unknown"),
            (1, "Info", "Info"),
            (2, "Warning", "Warning"),
            (3, "Error", "Error"),
            (4, "Verbose", "Verbose"),
        ],
        since: Schema::V2024_6,
        until: Schema::V2026_2,
    },
];
