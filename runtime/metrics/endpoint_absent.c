/* A build without libmicrohttpd. */
#include "metrics/endpoint.h"

#include <stdio.h>

void lsi_endpoint_open(int port, lsi_endpoint_page page, void *argument, char why[96], lsi_endpoint **out)
{
    (void)port, (void)page, (void)argument;
    snprintf(why, 96, "not in this build, which has no libmicrohttpd; monitor.textfile needs none");
    *out = NULL;
}

void lsi_endpoint_close(lsi_endpoint **endpoint)
{
    *endpoint = NULL;
}
