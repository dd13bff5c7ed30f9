"""The walk over mixing measures, for any number of records: its state, its moves, its atoms and its draws.

Words that all files use:

==============  =======================================================================================================
atom            a mass J and a place, the kernel's parameters in coordinates that may have any value; its weight is J/S
mass law        the prior of the masses and their sum S (``_mass_law``); there is one for each kind of mixing
chart           the coordinates of a kernel, with the prior, the densities and the moves there (``_chart``); there is
                one for each kind of kernel and, where that matters, of noise
node            a place and a weight that stand for some releases, or for one (``_node_layout``)
table           of an atom: g, the density of a release given its place, at all nodes, and derivatives (``_factors``)
cut, dust       atoms with a mass below the cut, too small to hold a record, are the dust: drawn anew as a whole
outside         a mass beside the mixture's: of people who answer as they like (``_outside``)
trial           what a proposal is written into: Σ J g at the nodes, and atoms behind all others
law             the walk's own numbers, such as counts, the likelihood and S; ``_walk_atoms`` names their positions
fence           what a step must not cross, and which coordinates it moves (``_steps``)
==============  =======================================================================================================

``_walk.py`` comes first: ``MixingMeasure`` chooses the chart (``_which_chart``), lays out nodes (``_node_layout``,
``_compressed``), tries them in short runs until they are right, and has the sweep, a list of moves.
``_walk_state.py`` has what the moves see and change, ``_walk_likelihood.py`` how a proposal is judged.

==============  =======================================================================================================
masses          ``_masses``: between two atoms, of one, births and deaths; ``_parts``: births from a part of an atom;
                ``_small_masses``: dust and other small ones anew
places          ``_steps``: of one atom or two; ``_slides``: of all; ``_splits`` (with ``_normal_splits`` and
                ``_correlated_splits``): one into two and back; ``_glides``: several along a ``_sheet`` on which the
                releases' density stays
categories      ``_ways``: directions in the shares of many; ``_trades``: against those outside
many at once    ``_excursions``: moves over ``_few_nodes``, then one look at all nodes
==============  =======================================================================================================

Charts are in ``_normal_atoms`` and the other files that end so; those of records on an interval have g from a table of
it (``_interval``, ``_noise_on_interval``, ``_on_interval``).  For correlated normals ``_correlated_gaussian`` has g in
closed form and ``_correlated_clamped`` by moments; elsewhere ``_correlated_hidden`` keeps a residual or a variance
beside each release.
"""
