// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * For `make static` alone. Since 0.192 the archives of libelf and libdw call elfutils' internal
 * libeu, which Debian does not package: its six search-tree calls, over tsearch(3). Their tree
 * begins with its root, and then has a lock, which we do not need, as one thread uses libdw. With
 * shared libraries nothing refers to these.
 */
#include <search.h>
#include <stddef.h>

struct search_tree {
	void *root;
};

typedef int (*compare)(const void *, const void *);

void eu_search_tree_init(struct search_tree *tree);
void eu_search_tree_fini(struct search_tree *tree, void (*free_node)(void *));
void *eu_tsearch(const void *key, struct search_tree *tree, compare order);
void *eu_tfind(const void *key, struct search_tree *tree, compare order);
void *eu_tdelete(const void *key, struct search_tree *tree, compare order);
void eu_tdestroy(struct search_tree *tree, void (*free_node)(void *));

void eu_search_tree_init(struct search_tree *tree)
{
	tree->root = NULL;
}

void eu_search_tree_fini(struct search_tree *tree, void (*free_node)(void *))
{
	eu_tdestroy(tree, free_node);
}

void *eu_tsearch(const void *key, struct search_tree *tree, compare order)
{
	return tsearch(key, &tree->root, order);
}

void *eu_tfind(const void *key, struct search_tree *tree, compare order)
{
	return tfind(key, &tree->root, order);
}

void *eu_tdelete(const void *key, struct search_tree *tree, compare order)
{
	return tdelete(key, &tree->root, order);
}

void eu_tdestroy(struct search_tree *tree, void (*free_node)(void *))
{
	tdestroy(tree->root, free_node);
	tree->root = NULL;
}
