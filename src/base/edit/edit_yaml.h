/* SPDX-License-Identifier: Apache-2.0 */
/* base/edit/edit_yaml.h - where something of a YAML tree stands in its text.
 *
 * For texts that yaml_parse has taken, with their lines (edit_lines), which count from 0 here.
 * Pure. */
#pragma once

#include "base/bytes/yaml.h"
#include "base/edit/edit.h"

size_t edit_yaml_indent(const struct edit_text *t, size_t line); /* blanks it begins with */
/* A line that is neither blank nor only a comment. */
bool edit_yaml_has_content(const struct edit_text *t, size_t line);

/* Where a node's position is in the text; columns count characters, not bytes. */
size_t edit_yaml_at(const struct edit_text *t, int line, int column);
/* Whether the key stands first on its line; *len is its length, quotes included. */
bool edit_yaml_key_leads(const struct edit_text *t, const struct node *n, size_t *len);
/* What stands in front of an item of a list: blanks, a hyphen, blanks. Its length, or 0. */
size_t edit_yaml_item_head(const struct edit_text *t, const struct node *item);

/* The first line behind the block whose keys are indented by more than `outer`. */
size_t edit_yaml_block_end(const struct edit_text *t, size_t from, size_t outer);
/* `to` without the lines before it that have no content. */
size_t edit_yaml_content_end(const struct edit_text *t, size_t from, size_t to);
/* The end of the flow value at `at`: behind its bracket, or in front of the ',' or bracket that
 * belongs to what is around it. */
size_t edit_yaml_flow_end(const struct edit_text *t, size_t at);
