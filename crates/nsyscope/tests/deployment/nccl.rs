//! The grammar of `NCCL_ALGO` and `NCCL_PROTO`.

use nsyscope::deploy::nccl_choice;

#[test]
fn lists_negations_and_functions() {
    let choice = nccl_choice("NCCL_PROTO", "^LL128;allreduce:ll128,simple").unwrap();
    assert_eq!(choice["allreduce"].as_deref(), Some(&["LL128", "Simple"][..]));
    assert_eq!(choice["broadcast"].as_deref(), Some(&["LL", "Simple"][..]));
    let choice = nccl_choice("NCCL_ALGO", "Tree").unwrap();
    assert_eq!(choice["allreduce"].as_deref(), Some(&["Tree"][..]));
    assert_eq!(choice["allgather"].as_deref(), Some(&[][..]));
    let choice = nccl_choice("NCCL_ALGO", "allreduce:tree").unwrap();
    assert_eq!(choice["reducescatter"], None);
}

#[test]
fn nonsense_is_an_error_with_a_hint() {
    for value in ["Rings", "Ring,,", "Ring;Tree", "all:Ring", "^"] {
        let error = nccl_choice("NCCL_ALGO", value).unwrap_err();
        assert!(error.hint().unwrap().contains("NVLSTree"), "{value}: {error}");
    }
    assert!(nccl_choice("NCCL_DEBUG", "INFO").is_err());
}
