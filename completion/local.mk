# SPDX-License-Identifier: BSD-3-Clause
# Completion for bash and zsh, from the programs' tables of options, as the man page is.
completed = mds_pretrain mds_launch mds_data mds_ckpt mds_infer
bashcompdir = $(datadir)/bash-completion/completions
zshcompdir = $(datadir)/zsh/site-functions
if !CROSS
nodist_bashcomp_DATA = completion/mds_pretrain
nodist_zshcomp_DATA = completion/_mds
endif
EXTRA_DIST += completion/completion.awk completion/mds.bash.in completion/_mds.in
CLEANFILES += completion/options completion/mds_pretrain completion/_mds

completion/options: src/programs/mds_pretrain$(EXEEXT) src/programs/mds_launch$(EXEEXT) \
    src/programs/mds_data$(EXEEXT) src/programs/mds_ckpt$(EXEEXT) src/programs/mds_infer$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) completion && \
	for program in $(completed); do \
	  src/programs/$$program$(EXEEXT) --option-table > $@.all || exit 1; \
	  sed "s/^/$$program		/" $@.all; \
	  for name in `sed -n 's/^subcommand	\([^	]*\).*/\1/p' $@.all`; do \
	    src/programs/$$program$(EXEEXT) $$name --option-table | sed "s/^/$$program	$$name	/" || exit 1; \
	  done; \
	done > $@.tmp && rm -f $@.all && mv $@.tmp $@
completion/mds_pretrain: completion/options $(srcdir)/completion/completion.awk $(srcdir)/completion/mds.bash.in
	$(AM_V_GEN){ $(AWK) -v shell=bash -f $(srcdir)/completion/completion.awk completion/options && \
	  cat $(srcdir)/completion/mds.bash.in; } > $@.tmp && mv $@.tmp $@
completion/_mds: completion/options $(srcdir)/completion/completion.awk $(srcdir)/completion/_mds.in
	$(AM_V_GEN){ $(AWK) -v shell=zsh -f $(srcdir)/completion/completion.awk completion/options && \
	  cat $(srcdir)/completion/_mds.in; } > $@.tmp && mv $@.tmp $@

# bash looks for a file with the command's name.
install-data-hook: install-completion-links
install-completion-links:
	cd "$(DESTDIR)$(bashcompdir)" 2> /dev/null || exit 0; \
	for program in $(completed); do \
	  [ $$program = mds_pretrain ] || [ ! -e mds_pretrain ] || ln -sf mds_pretrain $$program || exit 1; \
	done
uninstall-local: uninstall-completion-links
uninstall-completion-links:
	for program in $(completed); do rm -f "$(DESTDIR)$(bashcompdir)/$$program"; done
.PHONY: install-completion-links uninstall-completion-links
