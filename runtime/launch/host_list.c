#include "launch/host_list.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"

static const size_t hostfile_most = 1 << 20;

/* A host that stands there twice has the slots of both. slots: -1 without a number. */
static ls_status add(lsi_hosts *hosts, const char *name, size_t length, int slots)
{
    lsi_host *host = hosts->host;

    LS_REQUIRE(length < LSI_HOST_NAME, LS_ERR_USAGE, "the name of host '%.40s...' has more than %d characters", name,
               LSI_HOST_NAME - 1);
    while (host < hosts->host + hosts->n && (strncmp(host->name, name, length) != 0 || host->name[length] != '\0')) {
        host++;
    }
    if (host == hosts->host + hosts->n) {
        LS_REQUIRE(hosts->n < LSI_HOSTS_MAX, LS_ERR_USAGE, "more than %d hosts", LSI_HOSTS_MAX);
        hosts->n++;
        *host = (lsi_host){.slots = 0};
        memcpy(host->name, name, length);
    }
    host->slots += slots > 0 ? slots : 0;
    host->n_unsaid += slots < 0;
    return LS_OK;
}

static ls_status read_list(const char *list, lsi_hosts *out)
{
    while (*list != '\0') {
        size_t length = strcspn(list, ","), name = strcspn(list, ":,");
        int slots = name < length ? atoi(list + name + 1) : -1;

        if (length > 0) {
            LS_TRY(add(out, list, name, slots));
        }
        list += length + (list[length] == ',' ? 1 : 0);
    }
    return LS_OK;
}

static ls_status read_line(char *line, lsi_hosts *out)
{
    line[strcspn(line, "#\r")] = '\0';
    char *rest = line, *name = strtok_r(line, " \t", &rest), *word;
    int slots = -1;

    if (name == NULL) {
        return LS_OK;
    }
    while ((word = strtok_r(NULL, " \t", &rest)) != NULL) {
        if (strncmp(word, "slots=", 6) == 0) {
            slots = atoi(word + 6);
        }
    }
    return add(out, name, strlen(name), slots > 0 ? slots : -1);
}

static ls_status read_file(const char *path, lsi_hosts *out)
{
    char *text, *rest, *line;
    size_t size;
    ls_status status = LS_OK;

    LS_TRY(lsi_file_read(path, hostfile_most, LS_ERR_USAGE, &text, &size));
    rest = text;
    while (status == LS_OK && (line = strsep(&rest, "\n")) != NULL) {
        status = read_line(line, out);
    }
    lsi_memory_free(text);
    return status;
}

ls_status lsi_host_list_read(const char *host, const char *hostfile, lsi_hosts *out)
{
    out->n = 0;
    LS_TRY(host != NULL ? read_list(host, out) : read_file(hostfile, out));
    LS_REQUIRE(out->n > 0, LS_ERR_USAGE, "%s%.100s names no host", host != NULL ? "--host " : "",
               host != NULL ? host : hostfile);
    return LS_OK;
}

int lsi_host_list_slots(const lsi_hosts *hosts, int unsaid)
{
    int64_t total = 0;

    for (int i = 0; i < hosts->n; i++) {
        if (hosts->host[i].n_unsaid > 0 && unsaid == 0) {
            return 0;
        }
        total += hosts->host[i].slots + (int64_t)hosts->host[i].n_unsaid * unsaid;
    }
    return total < INT_MAX ? (int)total : INT_MAX;
}

int lsi_host_list_text(const lsi_hosts *hosts, char out[LSI_HOSTS_TEXT])
{
    int total = 0, used = 0;

    out[0] = '\0';
    for (int i = 0; i < hosts->n; i++) {
        const lsi_host *host = &hosts->host[i];

        if (host->n > 0) {
            used += snprintf(out + used, LSI_HOSTS_TEXT - (size_t)used, "%s%s:%d", used > 0 ? "," : "", host->name,
                             host->n);
            total += host->n;
        }
    }
    return total;
}
