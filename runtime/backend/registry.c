#include "backend/registry.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"

#ifdef LOCKSTEP_HAVE_CUDA
#include "backend/cuda/driver.h"
#endif

typedef struct offer {
    const ls_backend *backend;
    ls_status (*count)(int *out);       /* devices that this process sees, at least one, or why there is none */
} offer;

static ls_status one_host(int *out)
{
    *out = 1;
    return LS_OK;
}

/* In the order in which "auto" tries them; the last one runs everywhere. */
static const offer offers[] = {
#ifdef LOCKSTEP_HAVE_CUDA
    {&lsi_cuda_backend, lsi_cuda_driver_count},
#endif
    {&lsi_cpu_backend, one_host},
};
enum { N_BACKENDS = sizeof offers / sizeof offers[0] };

ls_status lsi_backend_check(const ls_backend *backend)
{
    LS_REQUIRE(backend->struct_size == sizeof(ls_backend), LS_ERR_INTERNAL,
               "backend table of %zu bytes, this library's has %zu: it was built against another version",
               backend->struct_size, sizeof(ls_backend));
    LS_REQUIRE(backend->name != NULL && backend->name[0] != '\0', LS_ERR_INTERNAL, "backend without a name");

    /* All entries behind the name are pointers to functions, so one loop sees each of them. */
    const char *entries = (const char *)backend + offsetof(ls_backend, open);
    size_t n_entries = (sizeof(ls_backend) - offsetof(ls_backend, open)) / sizeof backend->open;

    for (size_t i = 0; i < n_entries; i++) {
        void (*entry)(void);

        memcpy(&entry, entries + i * sizeof entry, sizeof entry);
        LS_REQUIRE(entry != NULL, LS_ERR_INTERNAL, "backend %s: entry %zu of its table is missing", backend->name, i);
    }
    return LS_OK;
}

static const ls_backend *find_best(void)
{
    int i = 0, count;

    for (; i < N_BACKENDS - 1 && offers[i].count(&count) != LS_OK; i++) {
        lsi_log_info("%s; device.backend = auto goes on with %s", ls_failure_message(), offers[i + 1].backend->name);
    }
    return offers[i].backend;
}

static ls_status no_such_backend(const char *name)
{
    lsi_text choices = {0};

    lsi_text_append(&choices, "auto");
    for (int i = N_BACKENDS - 1; i >= 0; i--) {
        lsi_text_append(&choices, ", %s", offers[i].backend->name);
    }
    ls_status status = lsi_text_status(&choices);
    if (status == LS_OK) {
        status = LS_FAIL(LS_ERR_CONFIG, "no backend '%s' in this build; choices: %s", name, choices.data);
    }
    lsi_text_free(&choices);
    return status;
}

ls_status lsi_backend_find(const char *name, const ls_backend **out)
{
    const ls_backend *found = strcmp(name, "auto") == 0 ? find_best() : NULL;

    for (int i = 0; i < N_BACKENDS && found == NULL; i++) {
        if (strcmp(name, offers[i].backend->name) == 0) {
            found = offers[i].backend;
        }
    }
    if (found == NULL) {
        return no_such_backend(name);
    }
    LS_TRY(lsi_backend_check(found));
    *out = found;
    return LS_OK;
}

ls_status lsi_backend_ordinal(const ls_backend *backend, int local_rank, int *out)
{
    int count = 1;

    for (int i = 0; i < N_BACKENDS; i++) {
        if (offers[i].backend == backend) {
            LS_TRY(offers[i].count(&count));
        }
    }
    *out = local_rank % count;
    return LS_OK;
}
