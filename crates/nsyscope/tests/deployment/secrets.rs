//! Secrets never get into a deployment, its views, or an error.

use nsyscope::deploy::{Deployment, Options};

use super::{fixture, from_file};

/// Everything that can be seen of a deployment.
fn all_of(d: &Deployment) -> String {
    format!("{d:?}\n{}\n{}\n{}", d.to_json(), d.to_text(80), d.to_markdown())
}

#[track_caller]
fn without(d: &Deployment, secret: &str) {
    let all = all_of(d);
    assert!(!all.contains(secret), "{secret} in {all}");
}

#[test]
fn on_the_command_line() {
    for line in [
        "vllm serve m --api-key S3CRETVALUE -tp 2",
        "vllm serve m --api-key=S3CRETVALUE -tp 2",
        "vllm serve m --api_key one S3CRETVALUE -tp 2",
        "vllm serve m --hf-token S3CRETVALUE -tp 2",
        "vllm serve m -H 'Authorization: Bearer S3CRETVALUE' -tp 2",
        "vllm serve -H Authorization: Bearer S3CRETVALUE -tp 2",
        "vllm serve m --ssl-keyfile-password S3CRETVALUE -tp 2",
        "vllm serve m --some-new-flag S3CRETVALUE -tp 2",
        "vllm serve m --some-new-flag=S3CRETVALUE -tp 2",
        "vllm serve m extra S3CRETVALUE -tp 2",
        "vllm serve https://user:S3CRETVALUE@host/m -tp 2",
        "vllm serve 's3://b/m?X-Amz-Signature=S3CRETVALUE' -tp 2",
        "vllm serve m -tp 2 --hf-overrides '{\"a\": {\"api_key\": \"S3CRETVALUE\"}}'",
        "vllm serve m -tp 2 --hf-overrides.api_key S3CRETVALUE",
        "vllm serve m -tp 2 --kv-transfer-config '{\"token\": \"S3CRETVALUE\"}'",
        "env OPENAI_API_KEY=S3CRETVALUE vllm serve m -tp 2",
        "docker run -e HF_TOKEN=S3CRETVALUE vllm/vllm-openai --model m -tp 2",
        "KEY=S3CRETVALUE; vllm serve m --api-key $KEY -tp 2",
        "VLLM_ARGS='--api-key S3CRETVALUE' vllm serve m -tp 2",
        "SGLANG_X='Bearer S3CRETVALUE' vllm serve m -tp 2",
        "curl -H 'Authorization: Bearer S3CRETVALUE' http://h; vllm serve m -tp 2",
    ] {
        let d = Deployment::from_command(line).unwrap();
        assert_eq!(d.to_json()["tp"], 2, "{line}");
        without(&d, "S3CRETVALUE");
    }
    for line in [
        "python3 -m sglang.launch_server --model m --api-key S3CRETVALUE --admin-api-key=S3CRETVALUE",
        "python3 train.py --wandb-key S3CRETVALUE --model sk-S3CRETVALUE",
        "trtllm-serve m --auth-token S3CRETVALUE",
    ] {
        without(&Deployment::from_command(line).unwrap(), "S3CRETVALUE");
    }
}

#[test]
fn in_variables_with_an_allowed_prefix() {
    for name in [
        "VLLM_API_KEY",
        "SGLANG_AUTH_TOKEN",
        "NCCL_SECRET",
        "VLLM_DB_PASSWORD",
        "TRTLLM_TOKENS",
        "SGL_HEADERS",
        "VLLM_S3_ACCESSKEY",
        "UCX_CREDENTIALS",
    ] {
        let d = Deployment::from_command(&format!("{name}=S3CRETVALUE vllm serve m")).unwrap();
        without(&d, "S3CRETVALUE");
        assert!(d.env.is_empty(), "{name}");
    }
    // By value: a token under an innocent name.
    for value in ["hf_abcdefghijkl", "sk-abcdefghijkl", "http://u:p@proxy:1", "eyJhbGciOi.x.y"] {
        let d = Deployment::from_command(&format!("VLLM_X={value} vllm serve m")).unwrap();
        assert!(d.env.is_empty(), "{value}");
    }
    // Counting tokens is no secret.
    let line = "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK=256 \
                VLLM_SHARED_EXPERTS_STREAM_TOKEN_THRESHOLD=1024 vllm serve m";
    assert_eq!(Deployment::from_command(line).unwrap().env.len(), 2);
}

#[test]
fn in_files() {
    let options = Options { instance: Some("x".to_owned()), ..Options::default() };
    let d = Deployment::from_file(fixture("llm@.service"), &options).unwrap();
    without(&d, "vllm-secret-in-unit");
    without(&d, "unit-secret");
    let d = from_file("compose.yaml");
    without(&d, "hf_abcdefghijklmnop");
    without(&d, "hf_zzzzzzzz");
    without(&from_file("start.sh"), "hf_0123456789abcdef");
    let text = "API_KEY=S3CRETVALUE\nNCCL_DEBUG=INFO\nEMPTY=\nSECRET=\n";
    let d = Deployment::from_text(text, &Options::default()).unwrap();
    without(&d, "S3CRETVALUE");
    assert_eq!(d.env.keys().collect::<Vec<_>>(), ["EMPTY", "NCCL_DEBUG"]);
}

#[test]
fn in_errors() {
    for line in [
        "vllm serve m --api-key S3CRETVALUE -tp 0",
        "vllm serve m --api-key 'S3CRETVALUE",
        "vllm serve m --hf-overrides '{\"api_key\": \"S3CRETVALUE\"'",
        "vllm serve m --hf-overrides '[\"S3CRETVALUE\"]'",
        "vllm serve m -tp sk-S3CRETVALUE",
        "K=\"${S3CRETVALUE",
    ] {
        let error = Deployment::from_command(line).unwrap_err();
        let shown = format!("{error} {error:?} {:?}", error.hint());
        assert!(!shown.contains("S3CRETVALUE"), "{shown}");
    }
    for text in [
        "services:\n  a:\n    environment:\n      K: {x: S3CRETVALUE}\n",
        "services:\n  a:\n    environment: S3CRETVALUE\n",
        "[Service]\nS3CRETVALUE\n",
        "[Service]\nEnvironment=\"A=S3CRETVALUE\n",
        "services:\n  a: \"S3CRETVALUE\n",
    ] {
        let error = Deployment::from_text(text, &Options::default()).unwrap_err();
        let shown = format!("{error} {error:?} {:?}", error.hint());
        assert!(!shown.contains("S3CRETVALUE"), "{shown}");
        assert!(shown.contains("line "), "{shown}");
    }
}
