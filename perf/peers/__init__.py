"""The same workloads against what else serves Python functions: `faircall bench peers`.

What peers need is no dependency of faircall: `pip install 'faircall[peers]'`. Each one is a module
here, which describes it (`PEERS`) and is what its process runs.
"""
