EXTRA_DIST += bench/cpu bench/torch_cpu.py
