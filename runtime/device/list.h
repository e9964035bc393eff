/* trainer --list-devices: the host's GPUs, and which of them a configuration could have. */
#ifndef LSI_DEVICE_LIST_H
#define LSI_DEVICE_LIST_H

#include "base/text.h"
#include <lockstep/config.h>

/* Not collective. That there is no GPU is an answer, too. */
LS_MUST_USE ls_status lsi_list_devices(const ls_config *config, const char *host, lsi_text *out);

#endif
