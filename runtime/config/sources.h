/* Where values come from, besides defaults: an INI text, the environment, the command line. */
#ifndef LSI_CONFIG_SOURCES_H
#define LSI_CONFIG_SOURCES_H

#include "config/state.h"

/* INI text, cut up in place (see ini.h). `printed`: the text of lsi_config_print, whose comments are origins. */
LS_MUST_USE ls_status lsi_sources_text(lsi_config *config, char *text, size_t size, bool printed);
/* LOCKSTEP_SECTION_KEY. Variables whose first word is no section are none of ours. */
LS_MUST_USE ls_status lsi_sources_environment(lsi_config *config);
/* "section.key=value"; a later one replaces an earlier one. */
LS_MUST_USE ls_status lsi_sources_sets(lsi_config *config, const char *const *sets, int n);

#endif
