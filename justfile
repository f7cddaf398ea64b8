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

# Time a whole report on a capture (give a large one).
bench capture:
    cargo build --release -p nsyscope-cli
    for i in 1 2 3 4 5; do /usr/bin/time -f '%e s wall, %U s user, %S s sys, %M KiB' target/release/nsyscope report {{capture}} --format json > /dev/null; done

# Cut the fixtures again from a folder of captures.
fixtures folder:
    bash fixtures/cut.sh {{folder}}
