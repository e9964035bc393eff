/* Backends by name. */
#ifndef LSI_BACKEND_REGISTRY_H
#define LSI_BACKEND_REGISTRY_H

#include <lockstep/backend.h>

/* "auto" gives the best backend of this build and machine. ERR_CONFIG names the choices. */
LS_MUST_USE ls_status lsi_backend_find(const char *name, const ls_backend **out);
/* Refuses a table with a hole or of another version. */
LS_MUST_USE ls_status lsi_backend_check(const ls_backend *backend);

extern const ls_backend lsi_cpu_backend;

#endif
