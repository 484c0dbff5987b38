"""Ray's surface as data: what Ray has today, what older Rays had, and what each means here.

* ``names.toml`` has every public name of Ray 2.60, with its status, reason and signature.
* ``old/*.toml`` have the names, modules and options of older Rays, one file for each library. A row
  says until which version Ray had it, what it is today, and where it is here.
* ``missing.toml`` has the modules of Ray that raycompat lacks.

`table` reads the rows. `era` knows the version of Ray that a program was written for, where it says
so. `forms` takes note of each use of an old form. `modules` makes the modules of the past, and gives
today's modules their former names. To support an old form, write a row; code is only needed where the
form has a meaning that no name of today has, and its place is `raycompat._old`.
"""
