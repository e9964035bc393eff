/* A list of words that becomes a command line. */
#ifndef LSI_LAUNCH_WORDS_H
#define LSI_LAUNCH_WORDS_H

#include "base/text.h"

typedef struct lsi_words {
    char **word; /* counted copies; NULL behind the last. NULL as long as there is none */
    int n;
} lsi_words;

/* Starts from {0}. */
LS_MUST_USE ls_status lsi_words_add(lsi_words *words, const char *word);
LS_MUST_USE ls_status lsi_words_add_all(lsi_words *words, char *const *more, int n);
void lsi_words_free(lsi_words *words);
/* Appends the words as a shell reads them back, with blanks between. */
void lsi_words_quote(char *const *word, int n, lsi_text *out);

#endif
