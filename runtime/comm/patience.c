#include "comm/patience.h"

#include "base/clock.h"

lsi_patience lsi_patience_begin(double timeout_seconds, const lsi_watchdog *watchdog)
{
    return (lsi_patience){
        .timeout_seconds = timeout_seconds,
        .deadline = lsi_clock_seconds() + timeout_seconds,
        .watchdog = watchdog,
    };
}

bool lsi_patience_is_over(lsi_patience *patience)
{
    const double behind_watchdog = 4, before_second_look = 2;
    lsi_patience *p = patience;
    double now = lsi_clock_seconds();

    if (now <= p->deadline || p->watchdog == NULL) {
        return now > p->deadline;
    }
    if (lsi_watchdog_vouches(p->watchdog, p->timeout_seconds + behind_watchdog)) {
        p->deadline = now + before_second_look;
        p->looked_before = false;
        return false;
    }
    if (p->looked_before) {
        return true;
    }
    p->deadline = now + before_second_look;
    p->looked_before = true;
    return false;
}
