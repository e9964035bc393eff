#include "train/overlap.h"

#include <string.h>

void lsi_overlap_open(lsi_overlap *overlap, const ls_config *config, int world)
{
    *overlap = (lsi_overlap){.decided = true};
    if (strcmp(config->comm.overlap, "auto") == 0) {
        overlap->decided = world == 1;      /* nothing to hide */
    } else {
        overlap->on = strcmp(config->comm.overlap, "true") == 0;
    }
}

bool lsi_overlap_of_step(const lsi_overlap *overlap, int64_t step)
{
    return overlap->decided ? overlap->on : step < LSI_OVERLAP_WARM_UP + LSI_OVERLAP_TRIES;
}

static double median3(const double *v)
{
    double low = v[0] < v[1] ? v[0] : v[1], high = v[0] < v[1] ? v[1] : v[0];

    return v[2] < low ? low : v[2] > high ? high : v[2];
}

void lsi_overlap_medians(const lsi_overlap *overlap, double *with, double *without)
{
    *with = median3(overlap->with);
    *without = median3(overlap->without);
}

bool lsi_overlap_take(lsi_overlap *overlap, int64_t step, double seconds)
{
    int64_t i = step - LSI_OVERLAP_WARM_UP;
    double with, without;

    if (overlap->decided || i < 0) {
        return false;
    }
    if (i < LSI_OVERLAP_TRIES) {
        overlap->with[i] = seconds;
    } else if (i < 2 * LSI_OVERLAP_TRIES) {
        overlap->without[i - LSI_OVERLAP_TRIES] = seconds;
    }
    if (i < 2 * LSI_OVERLAP_TRIES - 1) {
        return false;
    }
    lsi_overlap_medians(overlap, &with, &without);
    overlap->on = with < without;
    overlap->decided = true;
    return true;
}
