//! Which variables may be kept, and what must never be.
//!
//! Units, scripts and captures hold API keys. Only variables that change how the
//! engine runs are kept, and none whose name or value looks like a secret.

/// Prefixes of variables that change how an engine, NCCL or CUDA runs.
const PREFIXES: &[&str] = &[
    "NCCL_",
    "VLLM_",
    "SGLANG_",
    "SGL_",
    "TRTLLM_",
    "TLLM_",
    "NVSHMEM_",
    "TORCH_NCCL_",
    "TORCH_SYMM_MEM_",
    "FLASHINFER_",
    "DEEPEP_",
    "DEEP_EP_",
    "DG_JIT_",
    "UCX_",
];

/// Variables kept by their whole name.
const NAMES: &[&str] = &[
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "NVIDIA_VISIBLE_DEVICES",
    "HF_HOME",
    "HF_HUB_OFFLINE",
    "TRANSFORMERS_OFFLINE",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "OMP_NUM_THREADS",
    "WORLD_SIZE",
    "RANK",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "TORCHINDUCTOR_COMPILE_THREADS",
];

/// Names that hold `TOKEN` without being one.
const HARMLESS: &[&str] = &["VLLM_SHARED_EXPERTS_STREAM_TOKEN_THRESHOLD"];

/// Words of a name that mark a secret.
const MARKS: &[&str] = &[
    "KEY",
    "KEYS",
    "TOKEN",
    "PASSWD",
    "PASSPHRASE",
    "PWD",
    "AUTH",
    "AUTHORIZATION",
    "BEARER",
    "COOKIE",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "PRIVATE",
    "SIGNATURE",
    "HEADER",
    "HEADERS",
    "DSN",
    "WEBHOOK",
];

/// Parts that mark a secret wherever they stand in a name.
const PARTS: &[&str] = &["SECRET", "PASSWORD", "APIKEY", "API_KEY", "ACCESSKEY", "AUTHTOKEN"];

/// How well-known credentials begin.
const CREDENTIALS: &[&str] = &[
    "sk-",
    "sk_",
    "hf_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "ASIA",
    "eyJ",
    "nvapi-",
    "Bearer ",
    "Basic ",
    "AIza",
    "-----BEGIN",
    "dckr_pat_",
    "pypi-",
];

/// Whether a variable of this name and value may be kept and shown.
pub(super) fn may_keep_variable(name: &str, value: &str) -> bool {
    let listed = PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || NAMES.contains(&name);
    listed && !names_a_secret_variable(name, value) && !holds_a_secret(value)
}

/// Whether the name marks a secret. `..._TOKENS=4096` counts tokens, it is none.
pub(super) fn names_a_secret_variable(name: &str, value: &str) -> bool {
    if HARMLESS.contains(&name) {
        return !is_number(value);
    }
    if name.to_ascii_uppercase().split('_').any(|part| part == "TOKENS") && !is_number(value) {
        return true;
    }
    names_a_secret(name)
}

fn is_number(value: &str) -> bool {
    value.len() <= 9 && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a name (of a flag, a key or a variable) marks a secret.
pub(super) fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase().replace(['-', '.'], "_");
    // `pass_config` configures compiler passes.
    name.ends_with("_PASS")
        || name == "PASS"
        || PARTS.iter().any(|part| name.contains(part))
        || name.split('_').any(|part| {
            MARKS.contains(&part)
                || (part != "TOKENS" && (part.ends_with("TOKEN") || part.ends_with("PASSWD")))
        })
}

/// Whether a value holds something like a credential: a known prefix, a user and
/// password in an address, a secret flag of a command line, or a secret assignment.
pub(super) fn holds_a_secret(value: &str) -> bool {
    let begins = |text: &str| CREDENTIALS.iter().any(|prefix| text.starts_with(prefix));
    if begins(value.trim_start()) || has_userinfo(value) {
        return true;
    }
    let lower = value.to_ascii_lowercase();
    if lower.contains("authorization:") || lower.contains("bearer ") {
        return true;
    }
    value
        .split(|c: char| c.is_whitespace() || "\"'`,;:={}[]()?&|".contains(c))
        .any(|word| begins(word) || is_secret_flag(word))
        || value.split(|c: char| c.is_whitespace() || "\"'`,;?&".contains(c)).any(|word| {
            word.split_once('=').is_some_and(|(name, given)| {
                !given.is_empty() && names_a_secret(name.trim_start_matches('-'))
            })
        })
}

/// Whether a word of a command line is a flag that takes a secret.
pub(super) fn is_secret_flag(word: &str) -> bool {
    let Some(name) = word.strip_prefix('-') else { return false };
    let name = name.trim_start_matches('-');
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    // `-H` is a header everywhere; `--ssl-keyfile` and the like are paths, not keys.
    name == "H" || names_a_secret(name)
}

fn has_userinfo(value: &str) -> bool {
    value.match_indices("://").any(|(at, _)| {
        let rest = value.get(at + 3..).unwrap_or_default();
        let authority = rest.split(['/', '?', '#', ' ', '"', '\'']).next().unwrap_or_default();
        authority.contains('@')
    })
}

/// A text that may be shown: user and password and the query of an address are cut out,
/// and what looks like a credential becomes `[redacted]`.
pub(super) fn scrub(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(at) = text.find("://") {
        let start = at + 3;
        let end = text[start..].find(['/', '?', '#']).map_or(text.len(), |offset| start + offset);
        if let Some(userinfo) = text[start..end].rfind('@') {
            text.replace_range(start..=start + userinfo, "");
        }
        if let Some(query) = text.find('?') {
            text.truncate(query);
        }
    }
    if holds_a_secret(&text) { "[redacted]".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/report-schema.md");
        let text = std::fs::read_to_string(path).unwrap();
        for name in PREFIXES.iter().chain(NAMES) {
            assert!(text.contains(&format!("`{name}`")), "{name}");
        }
    }
}
