#include "train/overlap.h"

#include <string.h>

void lsi_overlap_open(lsi_overlap *overlap, const ls_config *config, int world, bool records)
{
    *overlap = (lsi_overlap){.decided = true, .n_passed_over = records ? LSI_OVERLAP_RECORDINGS : 0};
    if (strcmp(config->comm.overlap, "auto") == 0) {
        overlap->decided = world == 1;      /* nothing to hide */
    } else {
        overlap->on = strcmp(config->comm.overlap, "true") == 0;
    }
}

/* The first step of the second way. */
static int64_t turn(const lsi_overlap *overlap)
{
    return LSI_OVERLAP_WARM_UP + overlap->n_passed_over + LSI_OVERLAP_TRIES;
}

bool lsi_overlap_of_step(const lsi_overlap *overlap, int64_t step)
{
    return overlap->decided ? overlap->on : step < turn(overlap);
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
    int64_t first = turn(overlap) - LSI_OVERLAP_TRIES, second = turn(overlap) + overlap->n_passed_over;
    double with, without;

    if (overlap->decided) {
        return false;
    }
    if (step >= first && step < first + LSI_OVERLAP_TRIES) {
        overlap->with[step - first] = seconds;
    }
    if (step >= second && step < second + LSI_OVERLAP_TRIES) {
        overlap->without[step - second] = seconds;
    }
    if (step < second + LSI_OVERLAP_TRIES - 1) {
        return false;
    }
    lsi_overlap_medians(overlap, &with, &without);
    overlap->on = with < without;
    overlap->decided = true;
    return true;
}
