#include "backend/cpu/proc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool lsi_proc_find(const char *path, const char *key, char *out, size_t room)
{
    FILE *file = fopen(path, "re");
    size_t key_length = strlen(key), line_room = 0;
    char *line = NULL;
    bool found = false;

    if (file == NULL) {
        return false;
    }
    while (!found && getline(&line, &line_room, file) >= 0) {
        if (strncmp(line, key, key_length) != 0) {
            continue;
        }
        const char *value = line + key_length + strspn(line + key_length, " \t");

        if (*value == ':') {
            value += 1 + strspn(value + 1, " \t");
            snprintf(out, room, "%.*s", (int)strcspn(value, "\n"), value);
            found = true;
        }
    }
    free(line);
    fclose(file);
    return found;
}

bool lsi_proc_number(const char *path, uint64_t *out)
{
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        return false;
    }
    bool found = fscanf(file, "%" SCNu64, out) == 1;
    fclose(file);
    return found;
}
