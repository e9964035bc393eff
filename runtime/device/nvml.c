#include "device/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char library_name[] = "libnvidia-ml.so.1";

static void look_up(lsi_nvml *nvml)
{
#define LOOK_UP(type, name, parameters)                                                                                \
    {                                                                                                                  \
        void *found = dlsym(nvml->library, #name);                                                                     \
        memcpy(&nvml->name, &found, sizeof nvml->name);                                                                \
    }
    NVML_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
}

bool lsi_nvml_open(lsi_nvml *out, char *why, size_t why_room)
{
    *out = (lsi_nvml){0};
    out->library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (out->library == NULL) {
        snprintf(why, why_room, "%s is not there: no NVIDIA driver, or a container without its utility part",
                 library_name);
        return false;
    }
    look_up(out);
    nvmlReturn_t code = out->nvmlInit_v2 != NULL ? out->nvmlInit_v2() : NVML_ERROR_NOT_SUPPORTED;
    if (code != NVML_SUCCESS) {
        const char *text = out->nvmlErrorString != NULL ? out->nvmlErrorString(code) : "unknown error";

        snprintf(why, why_room, "%s does not start: %s (%d)%s", library_name, text, code,
                 code == NVML_ERROR_LIB_RM_VERSION_MISMATCH ? "; the driver was updated, the host must be restarted"
                                                            : "");
        dlclose(out->library);
        *out = (lsi_nvml){0};
        return false;
    }
    why[0] = '\0';
    return true;
}

void lsi_nvml_close(lsi_nvml *nvml)
{
    if (nvml->library != NULL) {
        if (nvml->nvmlShutdown != NULL) {
            (void)nvml->nvmlShutdown();
        }
        dlclose(nvml->library);
        *nvml = (lsi_nvml){0};
    }
}
