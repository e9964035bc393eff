/* A build without MPI: nobody reports. */
#include "job/reports.h"

ls_status lsi_reports_open(lsi_job *job, const int *senders, int n_senders, size_t bytes, lsi_reports **out)
{
    (void)job, (void)senders, (void)n_senders, (void)bytes;
    *out = NULL;
    return LS_OK;
}

bool lsi_reports_send(lsi_reports *reports, const void *report)
{
    (void)reports, (void)report;
    return false;
}

bool lsi_reports_receive(lsi_reports *reports, int *sender, void *out)
{
    (void)reports, (void)sender, (void)out;
    return false;
}

void lsi_reports_close(lsi_reports **reports)
{
    *reports = NULL;
}
