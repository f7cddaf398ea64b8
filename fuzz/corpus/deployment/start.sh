#!/usr/bin/env bash
set -euo pipefail
source /opt/venv/bin/activate
MODEL=${1:-/models/default}
TP="${TP:-8}"          # eight GPUs
export NCCL_PROTO=LL NCCL_DEBUG=$LEVEL
export HF_TOKEN=hf_0123456789abcdef
unused=not-exported
if [ "$TP" -gt 4 ]; then
  SEQS=64
fi
ARGS=(--max-num-seqs "$SEQS" --enforce-eager)
ARGS+=(--dtype 'bfloat16')
cat <<END
vllm serve not/this -tp 1
END
NCCL_ALGO=Ring exec vllm serve "$MODEL" \
  --tensor-parallel-size "$TP" "${ARGS[@]}" \
  --port $(next_port) --seed 1 2>&1 | tee /tmp/log
