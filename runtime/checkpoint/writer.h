/* One background thread that does one job at a time: what training does not wait for. */
#ifndef LSI_CHECKPOINT_WRITER_H
#define LSI_CHECKPOINT_WRITER_H

#include <lockstep/status.h>
#include <stdbool.h>

typedef struct lsi_writer lsi_writer;

LS_MUST_USE ls_status lsi_writer_start(lsi_writer **out);
/* Waits for a job under way, whose result is lost, and ends the thread. Accepts NULL. */
void lsi_writer_stop(lsi_writer **writer);
/* Not while one is under way or its result has not been taken. */
void lsi_writer_begin(lsi_writer *writer, ls_status (*job)(void *argument), void *argument);
bool lsi_writer_is_busy(lsi_writer *writer);
/* Waits for the job and returns its status, the failure being on this thread's record. OK when there was none. */
LS_MUST_USE ls_status lsi_writer_finish(lsi_writer *writer);

#endif
