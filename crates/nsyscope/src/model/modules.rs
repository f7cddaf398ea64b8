//! What checkpoints call their modules, so that ignore lists can be matched.

/// Names of modules in one family's checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModuleNames {
    layers: &'static str,
    pub(crate) attention: &'static str,
    pub(crate) linear_attention: &'static str,
    pub(crate) mlp: &'static str,
    pub(crate) router: &'static str,
    pub(crate) experts: &'static str,
    pub(crate) shared: &'static str,
    pub(crate) gate: &'static str,
    pub(crate) up: &'static str,
    pub(crate) down: &'static str,
}

const USUAL: ModuleNames = ModuleNames {
    layers: "model.layers",
    attention: "self_attn",
    linear_attention: "linear_attn",
    mlp: "mlp",
    router: "mlp.gate",
    experts: "mlp.experts.0",
    shared: "mlp.shared_experts",
    gate: "gate_proj",
    up: "up_proj",
    down: "down_proj",
};

impl ModuleNames {
    pub(crate) fn of(model_type: &str) -> Self {
        match model_type {
            "mixtral" | "minimax_m2" | "phimoe" => Self {
                router: "block_sparse_moe.gate",
                experts: "block_sparse_moe.experts.0",
                gate: "w1",
                up: "w3",
                down: "w2",
                ..USUAL
            },
            "kimi_linear" => Self {
                linear_attention: "self_attn",
                router: "block_sparse_moe.gate",
                experts: "block_sparse_moe.experts.0",
                shared: "block_sparse_moe.shared_experts",
                ..USUAL
            },
            "llama4_text" | "llama4" => Self {
                mlp: "feed_forward",
                router: "feed_forward.router",
                experts: "feed_forward.experts",
                shared: "feed_forward.shared_expert",
                ..USUAL
            },
            "gpt_oss" => Self { router: "mlp.router", experts: "mlp.experts", ..USUAL },
            "dbrx" => Self {
                layers: "transformer.blocks",
                attention: "norm_attn_norm.attn",
                router: "ffn.router.layer",
                experts: "ffn.experts.mlp",
                ..USUAL
            },
            "jamba" => Self {
                linear_attention: "mamba",
                mlp: "feed_forward",
                router: "feed_forward.router",
                experts: "feed_forward.experts.0",
                ..USUAL
            },
            "nemotron_h" => Self {
                layers: "backbone.layers",
                attention: "mixer",
                linear_attention: "mixer",
                mlp: "mixer",
                router: "mixer.gate",
                experts: "mixer.experts.0",
                shared: "mixer.shared_experts",
                ..USUAL
            },
            "granitemoe" => Self {
                router: "block_sparse_moe.router",
                experts: "block_sparse_moe",
                gate: "input_linear",
                up: "input_linear",
                down: "output_linear",
                ..USUAL
            },
            name if name.starts_with("qwen") => Self { shared: "mlp.shared_expert", ..USUAL },
            "hunyuan_v1_moe" => Self { router: "mlp.gate.wg", shared: "mlp.shared_mlp", ..USUAL },
            _ => USUAL,
        }
    }

    pub(crate) fn in_layer(&self, layer: usize, module: &str) -> String {
        format!("{}.{layer}.{module}", self.layers)
    }

    pub(crate) fn attention(&self, projection: &str) -> String {
        format!("{}.{projection}", self.attention)
    }

    pub(crate) fn linear_attention(&self, projection: &str) -> String {
        format!("{}.{projection}", self.linear_attention)
    }
}
