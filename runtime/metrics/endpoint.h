/* One page over HTTP, for Prometheus: GET /metrics. By libmicrohttpd; a build without it has none and says so. */
#ifndef LSI_METRICS_ENDPOINT_H
#define LSI_METRICS_ENDPOINT_H

#include "base/text.h"

typedef struct lsi_endpoint lsi_endpoint;

/* Appends the page; called on the endpoint's thread, for one request at a time. */
typedef void (*lsi_endpoint_page)(void *argument, lsi_text *out);

/* Listens on all addresses of this host. *out is NULL when that cannot be had, for which nobody should stop training:
 * `why` says it. The thread that opens it has its signals blocked, so that the endpoint's has. */
void lsi_endpoint_open(int port, lsi_endpoint_page page, void *argument, char why[96], lsi_endpoint **out);
/* Ends requests under way. Accepts NULL. */
void lsi_endpoint_close(lsi_endpoint **endpoint);

#endif
