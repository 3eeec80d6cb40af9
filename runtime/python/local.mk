# The Python module. It is installed for PYTHONPATH=$(pkgdatadir)/python; `pip install ./runtime/python` works too.
pypkgdir = $(pkgdatadir)/python/mainstem
dist_pypkg_DATA = %D%/mainstem/__init__.py %D%/mainstem/_c.py %D%/mainstem/errors.py %D%/mainstem/program.py \
	%D%/mainstem/tensors.py
nodist_pypkg_DATA = %D%/mainstem/_prefix.py
EXTRA_DIST += %D%/pyproject.toml
CLEANFILES += %D%/mainstem/_prefix.py
%D%/mainstem/_prefix.py: Makefile
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)echo 'LIBDIR = "$(libdir)"' > $@
