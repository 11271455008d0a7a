INSERT INTO guest VALUES
  ('guest 1', 'Ada Quist', 20),
  ('guest 2', 'Ben Oduya', 40),
  ('guest 3', 'Cleo Marsh', 10),
  ('guest 4', 'Dov Levin', 30),
  ('guest 5', 'Elin Strand', 0),
  ('guest 6', 'Femi Ade', 20);
INSERT INTO place VALUES
  ('place 1', 'Spin early', '', 'empty', 2),
  ('place 2', 'Spin late', 'guest 2', 'reserved', 3),
  ('place 3', 'Yoga early', '', 'empty', 1),
  ('place 4', 'Yoga late', 'guest 3', 'reserved', 2),
  ('place 5', 'Box early', '', 'empty', 3),
  ('place 6', 'Box late', 'guest 4', 'reserved', 1),
  ('place 7', 'Swim early', '', 'empty', 2),
  ('place 8', 'Swim late', 'guest 5', 'reserved', 3),
  ('place 9', 'Row early', '', 'empty', 1),
  ('place 10', 'Row late', 'guest 6', 'reserved', 2),
  ('place 11', 'Dance early', '', 'empty', 3),
  ('place 12', 'Dance late', 'guest 1', 'reserved', 1);
