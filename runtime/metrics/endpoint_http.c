#include "metrics/endpoint.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum { SECONDS_OF_A_SILENT_CLIENT = 10, CLIENTS = 32 };

struct lsi_endpoint {
    struct MHD_Daemon *daemon;
    lsi_endpoint_page page;
    void *argument;
};

static enum MHD_Result answer(struct MHD_Connection *to, unsigned code, const char *type, const char *text, size_t bytes)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(bytes, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);

    if (response == NULL) {
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    enum MHD_Result result = MHD_queue_response(to, code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result refuse(struct MHD_Connection *to, unsigned code, const char *text)
{
    return answer(to, code, "text/plain", text, strlen(text));
}

static enum MHD_Result serve(void *argument, struct MHD_Connection *from, const char *url, const char *method,
                             const char *version, const char *upload, size_t *upload_bytes, void **state)
{
    lsi_endpoint *endpoint = argument;
    lsi_text page = {0};

    (void)version, (void)upload, (void)upload_bytes, (void)state;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        return refuse(from, MHD_HTTP_METHOD_NOT_ALLOWED, "GET /metrics\n");
    }
    if (strcmp(url, "/metrics") != 0) {
        return refuse(from, MHD_HTTP_NOT_FOUND, "the metrics are at /metrics\n");
    }
    endpoint->page(endpoint->argument, &page);
    enum MHD_Result result =
        lsi_text_status(&page) == LS_OK && page.data != NULL
            ? answer(from, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", page.data, page.length)
            : refuse(from, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
    lsi_text_free(&page);
    return result;
}

void lsi_endpoint_open(int port, lsi_endpoint_page page, void *argument, char why[96], lsi_endpoint **out)
{
    lsi_endpoint *endpoint = NULL;

    *out = NULL;
    if (lsi_memory_alloc(sizeof *endpoint, "the metrics' endpoint", (void **)&endpoint) != LS_OK) {
        snprintf(why, 96, "out of memory");
        return;
    }
    *endpoint = (lsi_endpoint){.page = page, .argument = argument};
    errno = 0;
    endpoint->daemon =
        MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, (uint16_t)port, NULL, NULL, serve, endpoint,
                         MHD_OPTION_CONNECTION_LIMIT, (unsigned)CLIENTS, MHD_OPTION_CONNECTION_TIMEOUT,
                         (unsigned)SECONDS_OF_A_SILENT_CLIENT, MHD_OPTION_END);
    if (endpoint->daemon == NULL) {
        snprintf(why, 96, "%s", errno != 0 ? strerror(errno) : "libmicrohttpd does not start");
        lsi_memory_free(endpoint);
        return;
    }
    *out = endpoint;
}

void lsi_endpoint_close(lsi_endpoint **endpoint)
{
    if (*endpoint != NULL) {
        MHD_stop_daemon((*endpoint)->daemon);
        lsi_memory_free(*endpoint);
        *endpoint = NULL;
    }
}
