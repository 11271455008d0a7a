#!/usr/bin/env bash
# ReAct against an OpenAI-compatible server. This one is `transformers serve`, with the model that this package ships, so
# that nothing is downloaded; vLLM, llama.cpp or a hosted service are the same two flags.
# Run it in the README's environment, with: pip install fastapi uvicorn
set -euo pipefail
port="${PORT:-8765}"
model=$(python -c "from agentgym_ttg.models.loading import ASSETS; print(ASSETS / 'alfworld_easy')")
transformers serve --host 127.0.0.1 --port "$port" --device cpu &
server=$!
trap 'kill "$server"' EXIT
for _ in $(seq 240); do
  kill -0 "$server" || exit 1
  python - "$port" <<'PY' && break
import sys, urllib.request
try:
    urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/health", timeout=5)
except OSError:
    sys.exit(1)
PY
  sleep 1
done
# The shipped model was trained on plain commands in a plain conversation, hence the three flags in the second line.
python -m agentgym_ttg.benchmarks.run --method react --base-url "http://127.0.0.1:$port/v1" --model "$model" \
  --action-format plain --template none --max-response-tokens 16 \
  --temperature 0 --episodes "${EPISODES:-4}" --num-envs 4 --max-steps "${STEPS:-20}" --show 1 "$@"
