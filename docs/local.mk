# The man page comes from the program's table of options (no MPI is started for that).
nodist_man_MANS += docs/mds_pretrain.1
CLEANFILES += docs/mds_pretrain.1

docs/mds_pretrain.1: src/programs/mds_pretrain$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) docs && \
	src/programs/mds_pretrain$(EXEEXT) --man > $@.tmp && mv $@.tmp $@
