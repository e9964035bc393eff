#include "train/schedule.h"

#include <math.h>
#include <string.h>

static double clamp01(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

double lsi_schedule_rate(const ls_config *config, int64_t total, int64_t applied)
{
    const char *kind = config->schedule.kind;
    double lr = config->optimizer.lr, f = config->schedule.final_fraction;
    int64_t warmup = config->schedule.warmup_steps, decay = config->schedule.decay_steps;

    if (applied < warmup) {
        return lr * (double)(applied + 1) / (double)warmup;
    }
    if (strcmp(kind, "constant") == 0) {
        return lr;
    }
    if (strcmp(kind, "wsd") == 0) {
        int64_t length = decay > 0 ? decay : total / 5;
        double p = clamp01((double)(applied - (total - length)) / (double)(length > 1 ? length - 1 : 1));

        return lr * (1 - (1 - f) * p);
    }
    /* The last step of the run has p = 1. */
    int64_t length = decay > 0 ? decay : total - warmup - 1;
    double p = length > 0 ? clamp01((double)(applied - warmup) / (double)length) : 1;

    if (strcmp(kind, "linear") == 0) {
        return lr * (1 - (1 - f) * p);
    }
    return lr * (f + (1 - f) * 0.5 * (1 + cos(3.14159265358979323846 * p)));
}
