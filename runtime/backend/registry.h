/* Backends by name. */
#ifndef LSI_BACKEND_REGISTRY_H
#define LSI_BACKEND_REGISTRY_H

#include <lockstep/backend.h>

/* "auto" gives the best backend of this build and machine; where that is the cpu although the build has another one, the
 * log says why in one line. ERR_CONFIG names the choices. */
LS_MUST_USE ls_status lsi_backend_find(const char *name, const ls_backend **out);
/* A device for a process that has chosen none, by its place among the local ones: they go round the visible GPUs. The
 * runtime chooses (device/binding.h); this is for tests and tools. */
LS_MUST_USE ls_status lsi_backend_ordinal(const ls_backend *backend, int local_rank, int *out);
/* Refuses a table with a hole or of another version. */
LS_MUST_USE ls_status lsi_backend_check(const ls_backend *backend);

extern const ls_backend lsi_cpu_backend;
#ifdef LOCKSTEP_HAVE_CUDA
extern const ls_backend lsi_cuda_backend;
#endif

#endif
