INSERT INTO agent VALUES
  ('agent 1', 'Ada Quist', 20),
  ('agent 2', 'Ben Oduya', 40),
  ('agent 3', 'Cleo Marsh', 10),
  ('agent 4', 'Dov Levin', 30),
  ('agent 5', 'Elin Strand', 0),
  ('agent 6', 'Femi Ade', 20);
INSERT INTO parcel VALUES
  ('parcel 1', 'Red kettle', '', 'waiting', 2),
  ('parcel 2', 'Desk lamp', 'agent 2', 'checking', 3),
  ('parcel 3', 'Rain coat', '', 'waiting', 1),
  ('parcel 4', 'Toy train', 'agent 3', 'checking', 2),
  ('parcel 5', 'Wool rug', '', 'waiting', 3),
  ('parcel 6', 'Hand drill', 'agent 4', 'checking', 1),
  ('parcel 7', 'Tea set', '', 'waiting', 2),
  ('parcel 8', 'Yoga mat', 'agent 5', 'checking', 3),
  ('parcel 9', 'Bird feeder', '', 'waiting', 1),
  ('parcel 10', 'Wall clock', 'agent 6', 'checking', 2),
  ('parcel 11', 'Cork board', '', 'waiting', 3),
  ('parcel 12', 'Ice bucket', 'agent 1', 'checking', 1);
