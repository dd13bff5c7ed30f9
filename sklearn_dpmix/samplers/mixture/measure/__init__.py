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

Which tests check the files, in ``tests/samplers`` where no other folder is named.  ``test_acceptance_ratios`` sees a
factor of 1.02 in a move; ``test_measure_moves`` sees a move that does not keep the prior, if it is off by much.

==============================================================  =======================================================
``_masses``, ``_parts``, ``_splits``, ``_normal_splits``,       ``test_acceptance_ratios``, ``test_measure_moves``
``_correlated_splits``, ``_slides``, ``_steps``,
``_walk_atoms``, ``_categorical_atoms``, ``_normal_atoms``,
``_gamma_shares``
``_correlated_atoms``, ``_hidden_variances``,                   ``test_acceptance_ratios``, ``test_correlated_atoms``,
``_hidden_residuals``, ``_correlated_hidden``                   ``test_hidden_records``
``_outside``, ``_trades``                                       ``test_acceptance_ratios``,
                                                                ``tests/posterior/test_noncompliance``
``_mass_law``, ``_dirichlet_masses``, ``_finite_masses``,       ``test_mass_laws``, ``test_acceptance_ratios``,
``_pitman_yor_masses``, ``_small_masses``                       ``test_measure_moves``
``_beta_atoms``, ``_truncated_atoms``, ``_convolved_atoms``,    ``test_interval_atoms``
``_interval``, ``_on_interval``, ``_noise_on_interval``,
``_normal_on_interval``
``_noise_parts``                                                ``test_own_noise``
``_any_noise``                                                  ``test_any_noise``
``_clamped_atoms``                                              ``test_table_nodes``, ``test_own_noise``
``_clamped_moments``, ``_correlated_clamped``                   ``test_correlated_clamped``
``_correlated_gaussian``                                        ``test_correlated_gaussian``
``_many_categories``, ``_ways``                                 ``test_many_categories``, ``test_measure_moves``
``_glides``, ``_sheet``                                         ``test_glides``
``_excursions``                                                 ``test_excursion_moves``, ``test_excursions``
``_few_nodes``                                                  ``test_excursions``
``_starts``                                                     ``test_starts``
``_threshold_walk``                                             ``tests/posterior/test_thresholds_of_many``,
                                                                ``test_measure_moves``
``_compressed``, ``_node_layout``                               ``tests/releases/test_nodes_of_a_line``,
                                                                ``tests/releases/test_nodes_of_several``
``_factors``                                                    ``tests/releases/test_nodes_of_several``
``_walk_likelihood``                                            ``test_lost_digits``, ``test_mixing_measure``
``_chart``, ``_walk``, ``_walk_draws``, ``_walk_state``,        ``test_mixing_measure``
``_which_chart``
==============================================================  =======================================================
"""
