# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += \
	bench/account.py \
	bench/attention.py bench/attention_library.c \
	bench/ceiling.py \
	bench/data \
	bench/async-save bench/checkpoint bench/context-extension bench/cpu \
	bench/figures \
	bench/fp8-curves \
	bench/fp8_attention.py \
	bench/generate.py \
	bench/gpu \
	bench/lib.sh \
	bench/longseq \
	bench/muon bench/mup bench/offload \
	bench/packing \
	bench/peers/alst.py \
	bench/peers/gpt.py \
	bench/peers/llmc.py \
	bench/plan \
	bench/published bench/published-runs.txt \
	bench/records.py \
	bench/results \
	bench/scaling bench/score.py bench/startup bench/time-to-loss \
	bench/torch_cpu.py
TESTS += tests/cli/bench.t
dist_check_SCRIPTS += tests/cli/bench.t
