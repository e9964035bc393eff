/* A build without MPI: nobody to tell. */
#include "job/heartbeat.h"

ls_status lsi_heartbeat_open(lsi_job *job, const int *peers, int n_peers, lsi_heartbeat **out)
{
    (void)job, (void)peers, (void)n_peers;
    *out = NULL;
    return LS_OK;
}

void lsi_heartbeat_close(lsi_heartbeat **heartbeat)
{
    *heartbeat = NULL;
}

void lsi_heartbeat_begin(lsi_heartbeat *heartbeat)
{
    (void)heartbeat;
}

bool lsi_heartbeat_send(lsi_heartbeat *heartbeat, const lsi_beat *beat)
{
    (void)heartbeat, (void)beat;
    return true;
}

bool lsi_heartbeat_receive(lsi_heartbeat *heartbeat, int *peer, lsi_beat *out)
{
    (void)heartbeat, (void)peer, (void)out;
    return false;
}
