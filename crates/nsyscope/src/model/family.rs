//! What configurations leave out because the family's code fixes it.

/// Fixed properties of a family, keyed by the language model's `model_type`.
///
/// Source: the families' modelling code in the transformers package.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family<'a>(pub(crate) &'a str);

const KNOWN: &[&str] = &[
    "cohere",
    "cohere2",
    "dbrx",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "ernie4_5",
    "ernie4_5_moe",
    "exaone",
    "exaone4",
    "gemma",
    "gemma2",
    "gemma3",
    "gemma3_text",
    "gemma4",
    "gemma4_text",
    "glm",
    "glm4",
    "glm4_moe",
    "glm4_moe_lite",
    "glm_moe_dsa",
    "gpt_oss",
    "granite",
    "granitemoe",
    "hunyuan_v1_dense",
    "hunyuan_v1_moe",
    "jamba",
    "kimi_k2",
    "kimi_linear",
    "llama",
    "llama4",
    "llama4_text",
    "mimo_v2_flash",
    "minimax_m2",
    "mistral",
    "ministral",
    "mixtral",
    "nemotron_h",
    "olmo2",
    "olmoe",
    "phi3",
    "phimoe",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_5_moe_text",
    "qwen3_5_text",
    "qwen3_moe",
    "qwen3_next",
    "qwen3_vl_moe_text",
    "qwen3_vl_text",
    "seed_oss",
];

impl Family<'_> {
    pub(crate) fn is_known(self) -> bool {
        KNOWN.contains(&self.0)
    }

    fn is(self, names: &[&str]) -> bool {
        names.contains(&self.0)
    }

    pub(crate) fn ties_embeddings(self) -> bool {
        self.0.starts_with("gemma") || self.0.starts_with("cohere")
    }

    pub(crate) fn norms_queries_and_keys(self) -> bool {
        self.0.starts_with("qwen3")
            || self.0.starts_with("gemma3")
            || self.0.starts_with("gemma4")
            || self.is(&["olmo2", "olmoe", "exaone4"])
    }

    /// Whether the query and key norms have a weight for each channel of all heads.
    pub(crate) fn norms_all_heads_together(self) -> bool {
        self.is(&["minimax_m2", "olmo2", "olmoe"])
    }

    pub(crate) fn has_qkv_bias(self) -> bool {
        self.is(&["qwen2", "qwen2_moe"])
    }

    pub(crate) fn has_output_bias(self) -> bool {
        self.is(&["gpt_oss", "phimoe"])
    }

    pub(crate) fn gates_attention_output(self) -> bool {
        self.is(&["qwen3_next", "qwen3_5_moe_text", "qwen3_5_text"])
    }

    pub(crate) fn has_sinks(self) -> bool {
        self.0 == "gpt_oss"
    }

    pub(crate) fn has_expert_bias(self) -> bool {
        self.0 == "gpt_oss"
    }

    pub(crate) fn has_router_bias(self) -> bool {
        self.is(&[
            "deepseek_v3",
            "deepseek_v32",
            "glm4_moe",
            "glm_moe_dsa",
            "gpt_oss",
            "kimi_k2",
            "kimi_linear",
            "minimax_m2",
            "nemotron_h",
        ])
    }

    pub(crate) fn gates_shared_experts(self) -> bool {
        self.is(&["qwen2_moe", "qwen3_next", "qwen3_5_moe_text"])
    }

    pub(crate) fn always_has_shared_expert(self) -> bool {
        self.is(&["llama4", "llama4_text"])
    }

    /// Whether attention and feed-forward are each wrapped in two norms.
    pub(crate) fn norms_both_sides(self) -> bool {
        self.0.starts_with("gemma2") || self.0.starts_with("gemma3") || self.0.starts_with("gemma4")
    }

    /// Local layers come in the ratio of so many layers, the last one global, where nothing says otherwise.
    pub(crate) fn local_layer_period(self) -> Option<u64> {
        match self.0 {
            "gemma2" | "gpt_oss" => Some(2),
            "gemma3" | "gemma3_text" => Some(6),
            "cohere2" => Some(4),
            _ => None,
        }
    }
}
