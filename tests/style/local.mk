# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += src/LAYERS tests/style/circles.awk tests/style/layers.awk
TESTS += tests/style/dist.sh tests/style/layers.sh tests/style/format.sh tests/style/howto.sh \
  tests/style/licence.sh tests/style/links.sh tests/style/shell.sh
dist_check_SCRIPTS += tests/style/dist.sh tests/style/layers.sh tests/style/format.sh tests/style/howto.sh \
  tests/style/licence.sh tests/style/links.sh tests/style/shell.sh
