/* One line of a machine's description: words, and key=value pairs read into the fields of a record. */
#ifndef CUSIM_MACHINE_LINE_H
#define CUSIM_MACHINE_LINE_H

#include "machine.h"

/* Where we are, and where a complaint goes. */
typedef struct cusim_line {
    const char *name; /* of the text */
    int number;       /* 0: not a line's complaint */
    char *error;
    size_t error_size;
} cusim_line;

enum cusim_key_kind { INTEGER, FLAG, ON_OFF, TEXT, MEMORY, CAPABILITY, BUS, MODE };

typedef struct cusim_key {
    const char *name;
    enum cusim_key_kind kind;
    size_t offset;  /* of the field in the record */
    long low, high; /* INTEGER: range; TEXT: high is the room */
} cusim_key;

/* Writes "name:number: ..." and returns -1. */
int cusim_line_fail(const cusim_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

int cusim_line_integer(const cusim_line *line, const char *what, const char *text, long low, long high, long *out);

/* The next word of *rest, NULL at the end of the line; quotes keep blanks inside a word. Changes the text. */
char *cusim_line_word(char **rest);

/* Reads what is left of a line into `record`. */
int cusim_line_keys(const cusim_line *line, const char *item, char *rest, const cusim_key *keys, size_t n_keys,
                    void *record);

#endif
