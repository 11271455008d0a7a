INSERT INTO student VALUES
  ('student 1', 'Ada Quist', 20),
  ('student 2', 'Ben Oduya', 40),
  ('student 3', 'Cleo Marsh', 10),
  ('student 4', 'Dov Levin', 30),
  ('student 5', 'Elin Strand', 0),
  ('student 6', 'Femi Ade', 20);
INSERT INTO seat VALUES
  ('seat 1', 'Algebra one', '', 'vacant', 2),
  ('seat 2', 'Algebra two', 'student 2', 'enrolled', 3),
  ('seat 3', 'Botany one', '', 'vacant', 1),
  ('seat 4', 'Botany two', 'student 3', 'enrolled', 2),
  ('seat 5', 'Chess one', '', 'vacant', 3),
  ('seat 6', 'Chess two', 'student 4', 'enrolled', 1),
  ('seat 7', 'Drama one', '', 'vacant', 2),
  ('seat 8', 'Drama two', 'student 5', 'enrolled', 3),
  ('seat 9', 'Ethics one', '', 'vacant', 1),
  ('seat 10', 'Ethics two', 'student 6', 'enrolled', 2),
  ('seat 11', 'French one', '', 'vacant', 3),
  ('seat 12', 'French two', 'student 1', 'enrolled', 1);
