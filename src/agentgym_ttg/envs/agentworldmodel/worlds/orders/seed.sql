INSERT INTO cook VALUES
  ('cook 1', 'Ada Quist', 20),
  ('cook 2', 'Ben Oduya', 40),
  ('cook 3', 'Cleo Marsh', 10),
  ('cook 4', 'Dov Levin', 30),
  ('cook 5', 'Elin Strand', 0),
  ('cook 6', 'Femi Ade', 20);
INSERT INTO ticket VALUES
  ('ticket 1', 'Onion soup', '', 'new', 2),
  ('ticket 2', 'Grilled trout', 'cook 2', 'cooking', 3),
  ('ticket 3', 'Lamb stew', '', 'new', 1),
  ('ticket 4', 'Green salad', 'cook 3', 'cooking', 2),
  ('ticket 5', 'Fig tart', '', 'new', 3),
  ('ticket 6', 'Beef pie', 'cook 4', 'cooking', 1),
  ('ticket 7', 'Rice bowl', '', 'new', 2),
  ('ticket 8', 'Egg noodles', 'cook 5', 'cooking', 3),
  ('ticket 9', 'Bean chili', '', 'new', 1),
  ('ticket 10', 'Pea risotto', 'cook 6', 'cooking', 2),
  ('ticket 11', 'Plum cake', '', 'new', 3),
  ('ticket 12', 'Corn bread', 'cook 1', 'cooking', 1);
