/* The inventory for people and for programs. */
#ifndef LSI_DEVICE_INVENTORY_TEXT_H
#define LSI_DEVICE_INVENTORY_TEXT_H

#include "base/text.h"
#include "device/inventory.h"
#include "device/select.h"

/* One GPU, in the lines of nvidia-smi -L and what matters for choosing:
 *     GPU 0: NVIDIA A10 (UUID: GPU-...)
 *         cuda:0, PCI 0000:07:00.0, compute capability 8.6, 22.0 of 22.5 GiB free, 0 % busy, 31 C, ...
 *         in use by 4242 (alice, python, 2.0 GiB)
 *         choice 1 | not taken: why
 * choice may be NULL: without the last line. */
void lsi_inventory_describe(const lsi_inventory *inventory, int place, const lsi_choice *choice, lsi_text *out);
/* All of them, how they are connected, and what the libraries had to say. */
void lsi_inventory_list(const lsi_inventory *inventory, const lsi_choice *choice, lsi_text *out);
/* One line a GPU, as a table with a head, for watching. */
void lsi_inventory_table(const lsi_inventory *inventory, lsi_text *out);
/* The same facts as one JSON object; what is not known is null. Bytes, watts, MHz, degrees Celsius, per cent. */
void lsi_inventory_json(const lsi_inventory *inventory, const lsi_choice *choice, lsi_text *out);

/* What slows a GPU down, from NVML's bits, each with `before` in front; that it idles is nothing. */
void lsi_inventory_append_throttles(int64_t bits, const char *before, lsi_text *out);

#endif
