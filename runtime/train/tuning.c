#include "train/tuning.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/failure.h"
#include "base/hash.h"
#include "base/memory.h"

const lsi_tuned *lsi_tuning_find(const lsi_tuning *tuning, const lsi_gemm_shape *shape)
{
    for (int i = 0; i < tuning->n; i++) {
        if (memcmp(&tuning->entry[i].shape, shape, sizeof *shape) == 0) {
            return &tuning->entry[i];
        }
    }
    return NULL;
}

ls_status lsi_tuning_seal(lsi_tuning *tuning)
{
    lsi_text text = {0};

    lsi_text_append(&text, "%s\n%s\n", tuning->device, tuning->library);
    for (int i = 0; i < tuning->n; i++) {
        const lsi_tuned *e = &tuning->entry[i];

        lsi_text_append_bytes(&text, (const char *)&e->shape, sizeof e->shape);
        lsi_text_append_bytes(&text, (const char *)&e->settings, sizeof e->settings);
    }
    ls_status status = lsi_text_status(&text);
    if (status == LS_OK) {
        snprintf(tuning->hash, sizeof tuning->hash, "%016" PRIx64, lsi_hash64(text.data, text.length));
    }
    lsi_text_free(&text);
    return status;
}

void lsi_tuning_free(lsi_tuning *tuning)
{
    lsi_memory_free(tuning->device);
    lsi_memory_free(tuning->library);
    lsi_memory_free(tuning->entry);
    *tuning = (lsi_tuning){0};
}

static ls_status check_same(const char *path, const char *what, const char *made_for, const char *here)
{
    LS_REQUIRE(strcmp(made_for, here) == 0, LS_ERR_CONFIG,
               "%s was made for %s '%s', here it is '%s'; make one here by trainer --tune-gemm FILE CONFIG, or leave "
               "device.gemm_plan empty",
               path, what, made_for, here);
    return LS_OK;
}

ls_status lsi_tuning_install(const lsi_tuning *tuning, const char *path, ls_device *device)
{
    const lsi_gemm_choices *choices = lsi_gemm_choices_of(device);

    LS_REQUIRE(
        choices != NULL, LS_ERR_CONFIG,
        "device.gemm_plan = %s: the %s backend makes products in one way, there is nothing to plan; leave the key "
        "empty, or run on GPUs",
        path, device->backend->name);
    LS_TRY(check_same(path, "the GPU", tuning->device, choices->model(device)));
    LS_TRY(check_same(path, "the library", tuning->library, choices->library(device)));
    for (int i = 0; i < tuning->n; i++) {
        const lsi_tuned *e = &tuning->entry[i];
        lsi_gemm_algorithm algorithm;

        ls_status status = choices->make(device, &e->shape, &e->settings, &algorithm);
        if (status == LS_OK) {
            status = choices->install(device, &e->shape, &algorithm);
        }
        if (status != LS_OK) {
            lsi_failure cause;

            lsi_failure_take(&cause);
            return LS_FAIL(LS_ERR_CONFIG, "%s: product %d: %.400s; make a new plan by trainer --tune-gemm FILE CONFIG",
                           path, i + 1, cause.message);
        }
    }
    return LS_OK;
}
