"""A world whose tools break every limit, each in its own way."""

CODE = """
import os, socket, sqlite3, subprocess, time
from fastapi import FastAPI, HTTPException
app = FastAPI()

@app.post("/good/{number}", operation_id="good")
def good(number: int, word: str = "x"):
    return word * number

@app.post("/fails", operation_id="fails")
def fails():
    raise ValueError("bad")

@app.post("/hangs", operation_id="hangs")
def hangs():
    while True:
        time.sleep(1)

@app.post("/exits", operation_id="exits")
def exits():
    os._exit(3)

@app.post("/quits", operation_id="quits")
def quits():
    raise SystemExit

@app.post("/eats", operation_id="eats")
def eats():
    return len(bytearray(4 << 30))

@app.post("/connects", operation_id="connects")
def connects():
    socket.create_connection(("127.0.0.1", 9))

@app.post("/writes", operation_id="writes")
def writes(path: str):
    open(path, "w").write("x")

@app.post("/attaches", operation_id="attaches")
def attaches(path: str):
    sqlite3.connect("world.db").execute("ATTACH DATABASE ? AS other", (path,))

@app.post("/spawns", operation_id="spawns")
def spawns():
    subprocess.run(["true"])
"""
