/* What several keys must satisfy together. */
#ifndef LSI_CONFIG_RULES_H
#define LSI_CONFIG_RULES_H

#include "config/state.h"

/* Those that hold for every program: batch, lanes, steps, scales, transport, files. */
LS_MUST_USE ls_status lsi_rules_check(const lsi_config *config);
/* Those about [model] and [data], which a program with a model and data of its own does not use. */
LS_MUST_USE ls_status lsi_rules_check_inputs(const lsi_config *config);

#endif
