#include "backend/registry.h"

#include <string.h>

#include "base/text.h"

static const ls_backend *const backends[] = {
    &lsi_cpu_backend,       /* runs everywhere, so "auto" takes it last */
};
enum { N_BACKENDS = sizeof backends / sizeof backends[0] };

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

ls_status lsi_backend_find(const char *name, const ls_backend **out)
{
    const ls_backend *found = NULL;

    if (strcmp(name, "auto") == 0) {
        found = backends[N_BACKENDS - 1];
    }
    for (int i = 0; i < N_BACKENDS && found == NULL; i++) {
        if (strcmp(name, backends[i]->name) == 0) {
            found = backends[i];
        }
    }
    if (found == NULL) {
        lsi_text choices = {0};

        lsi_text_append(&choices, "auto");
        for (int i = 0; i < N_BACKENDS; i++) {
            lsi_text_append(&choices, ", %s", backends[i]->name);
        }
        ls_status status = lsi_text_status(&choices);
        if (status == LS_OK) {
            status = LS_FAIL(LS_ERR_CONFIG, "no backend '%s' in this build; choices: %s", name, choices.data);
        }
        lsi_text_free(&choices);
        return status;
    }
    LS_TRY(lsi_backend_check(found));
    *out = found;
    return LS_OK;
}
