/* What several keys must satisfy together. */
#ifndef LSI_CONFIG_RULES_H
#define LSI_CONFIG_RULES_H

#include "config/state.h"

LS_MUST_USE ls_status lsi_rules_check(const lsi_config *config);

#endif
