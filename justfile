# A convenience beside the two commands of README.md; nothing needs it.

# Build and run the main job on a capture of the repository.
demo:
    cargo run --release -p nsyscope-cli -- report fixtures/captures/kimi_tp8_decode.sqlite.zst

# All tests.
test:
    cargo test --workspace

# What the continuous integration checks.
check:
    bash .ci/run

# Format all code.
fmt:
    cargo fmt --all

# The documentation of the library.
doc:
    cargo doc --workspace --no-deps --open

# Time each stage by itself.
bench:
    cargo bench -p nsyscope-bench

# Time whole processes at growing sizes, and other tools where `python` has them.
processes python="python3":
    cargo build --release -p nsyscope-cli
    cargo run --release -p nsyscope-bench -- --python {{python}}

# Cut the fixtures again from a folder of captures.
fixtures folder:
    bash fixtures/cut.sh {{folder}}
